"""Estimator checks of scikit-learn that are expected to fail, with reasons."""

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "feeds continuous columns, which are no categories, and asks that stochastic fits agree; "
        "test_discrete.py checks the equivalence on categories, test_boltzmann_machine.py and "
        "test_rbm_fit.py on two states, test_crbm_fit.py on outputs, with deterministic learners; "
        "test_nnmrf_fit.py checks the bases of neural potentials, whose networks are learned from "
        "chains, and that rows of weight 0 count as absent"
    ),
    "check_sample_weight_equivalence_on_sparse_data": (
        "asks that stochastic fits agree; test_rbm_fit.py and test_crbm_fit.py check the "
        "equivalence with a deterministic learner, and test_rbm_fit.py and test_crbm_queries.py "
        "that sparse rows give the same fit as dense ones"
    ),
}

EXPECTED_SKIPPED_CHECKS = {
    "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API=1 is set",
    "check_classifiers_multilabel_output_format_predict_proba": (
        "max-margin learners have no probabilities, so no predict_proba"
    ),
}
