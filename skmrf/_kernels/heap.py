"""A binary heap of items by urgency, the most urgent first, in which urgencies can change.

``heap`` holds the items, ``place[item]`` where each is in it.
"""

from ._jit import inlined


@inlined
def rise(heap, place, urgency, item):
    """Restore the heap after item has become more urgent."""
    k = place[item]
    while k > 0:
        above = (k - 1) // 2
        other = heap[above]
        if urgency[other] >= urgency[item]:
            break
        heap[k] = other
        place[other] = k
        k = above
    heap[k] = item
    place[item] = k


@inlined
def sink(heap, place, urgency, item):
    """Restore the heap after item has become less urgent."""
    k = place[item]
    n = heap.size
    while 2 * k + 1 < n:
        below = 2 * k + 1
        if below + 1 < n and urgency[heap[below + 1]] > urgency[heap[below]]:
            below += 1
        other = heap[below]
        if urgency[other] <= urgency[item]:
            break
        heap[k] = other
        place[other] = k
        k = below
    heap[k] = item
    place[item] = k
