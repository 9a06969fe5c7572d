"""Types that all packages share, validation, parallel work and interrupts."""
