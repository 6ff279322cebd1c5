//! The rules for the shape of the source, checked by `tests/structure`. The library itself is empty.
