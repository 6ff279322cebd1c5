//! Who may call a route.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Everyone,
    /// The account that is signed in, for what is its own.
    Account,
    Operator,
}
