//! Who may call a route.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Everyone,
    /// Whoever is signed in, for what is their own.
    Account,
    Operator,
}
