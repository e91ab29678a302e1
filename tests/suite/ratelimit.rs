//! Rate limits that hold across instances, on Redis: GCRA, sliding window, fixed window.
