//! The form of a transfer: two sides, each a chain and a currency, the amount, and how it is paid.

use alloy_primitives::Address;
use domain::account::Vm;
use domain::api_key::ApiKey;
use domain::catalog::{Catalog, Chain, Currency};
use domain::ids::ChainId;
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::account::Account;
use crate::decimal::units;
use crate::failure::Failure;
use crate::guard::Fields;
use crate::layout::token;
use crate::markup::field;

/// Ways to pay, and how the form names them.
const WAYS: [(&str, &str); 2] = [("wallet", "With a wallet"), ("address", "From an exchange")];

/// One end of a transfer: a chain, and a currency by its id, which is the same on every chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Side {
    chain: String,
    currency: String,
}

impl Side {
    fn of(fields: &Fields, chain: &str, currency: &str) -> Self {
        Self { chain: fields.get(chain).to_owned(), currency: fields.get(currency).to_owned() }
    }

    fn native(chain: &Chain) -> Self {
        Self { chain: chain.id.to_string(), currency: chain.native.id.clone() }
    }

    fn chain<'a>(&self, catalog: &'a Catalog) -> Option<&'a Chain> {
        catalog.chain(ChainId(self.chain.parse().ok()?))
    }

    /// Its currency, or what to choose instead.
    fn currency<'a>(&self, catalog: &'a Catalog, name: &str) -> Result<&'a Currency, Failure> {
        let chain = self.chain(catalog);
        let chain = chain.ok_or_else(|| Failure::bad(format!("{name}: choose a chain of the list")))?;
        let found = chain.currencies().find(|currency| currency.id == self.currency);
        let name_of = &chain.presentation.display_name;
        found.ok_or_else(|| Failure::bad(format!("{name}: choose a currency that is on {name_of}")))
    }
}

/// True where a wallet of a browser, or an exchange, can pay.
fn is_payable(chain: &Chain) -> bool {
    chain.vm == Vm::Evm
}

/// The members of the form, as they were sent or as they are at first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    from: Side,
    to: Side,
    amount: String,
    recipient: String,
    /// The id of the key; empty without one.
    pub key: String,
    /// `wallet`, or `address` for somebody who can only send.
    pay: String,
    refund_to: String,
    /// The two sides have just been switched: the keyboard stays at that button.
    switched: bool,
}

impl Wish {
    pub(super) fn first(catalog: &Catalog, key: String) -> Self {
        let mut natives = catalog.chains().iter().filter(|chain| is_payable(chain)).map(Side::native);
        let (from, to) = (natives.next().unwrap_or_default(), natives.next().unwrap_or_default());
        Self { from, to, amount: "0.01".to_owned(), pay: "wallet".to_owned(), key, ..Self::default() }
    }

    pub(super) fn of(fields: &Fields) -> Self {
        let get = |name: &str| fields.get(name).to_owned();
        Self {
            from: Side::of(fields, "fromChain", "fromCurrency"),
            to: Side::of(fields, "toChain", "toCurrency"),
            amount: get("amount"),
            recipient: get("recipient"),
            key: get("key"),
            pay: get("pay"),
            refund_to: get("refundTo"),
            switched: false,
        }
    }

    /// The way back. A side that nobody can pay from here stays where it is.
    pub(super) fn switched(self, catalog: &Catalog) -> Self {
        if self.to.chain(catalog).is_some_and(is_payable) {
            Self { from: self.to, to: self.from, switched: true, ..self }
        } else {
            Self { switched: true, ..self }
        }
    }

    fn at_address(&self) -> bool {
        self.pay == "address"
    }

    /// The account that a refund goes to: an exchange's own address would not know whose it is.
    pub(super) fn refund_to(&self, user: Address) -> String {
        if self.refund_to.is_empty() { user.to_string() } else { self.refund_to.clone() }
    }

    /// The body of the quote.
    pub(super) fn ask(&self, catalog: &Catalog, user: Address) -> Result<Value, Failure> {
        let (origin, destination) = (self.from.currency(catalog, "from")?, self.to.currency(catalog, "to")?);
        let amount = units(&self.amount, origin.decimals).filter(|units| units != "0");
        let problem = || Failure::bad(format!("amount: a number with at most {} decimals", origin.decimals));
        let recipient = if self.recipient.is_empty() { user.to_string() } else { self.recipient.clone() };
        let mut ask = json!({
            "user": user.to_string(),
            "recipient": recipient,
            "originChainId": origin.chain.0,
            "originCurrency": origin.address.to_string(),
            "destinationChainId": destination.chain.0,
            "destinationCurrency": destination.address.to_string(),
            "amount": amount.ok_or_else(problem)?,
            "tradeType": "EXACT_INPUT",
        });
        if self.at_address() {
            // Open, not strict: exchanges take their fee off, and what arrives is priced as it is.
            ask["useDepositAddress"] = json!(true);
            ask["refundTo"] = json!(self.refund_to(user));
        }
        Ok(ask)
    }
}

/// The form. `receives` is the amount that a quote has said, or nothing.
pub(super) fn form(catalog: &Catalog, account: &Account, keys: &[ApiKey], wish: &Wish, receives: &str) -> Markup {
    let everywhere: Vec<&Chain> = catalog.chains().iter().collect();
    let payable: Vec<&Chain> = everywhere.iter().copied().filter(|chain| is_payable(chain)).collect();
    html! {
        form.card method="post" action="/dashboard/transfer" {
            (token(account))
            // The Enter key presses the first button of a form, which must not be the one that switches.
            button.hidden type="submit" tabindex="-1" aria-hidden="true" { "Quote" }
            div.ways {
                div.side role="group" aria-labelledby="from" data-side="from" {
                    h2 #from { "From" }
                    (selects(&payable, ["fromChain", "fromCurrency"], &wish.from))
                    (field("amount", "You send", "", &html! {
                        input.large #amount name="amount" required inputmode="decimal" value=(wish.amount)
                            autocomplete="off";
                    }))
                }
                (switch(wish))
                div.side role="group" aria-labelledby="to" data-side="to" {
                    h2 #to { "To" }
                    (selects(&everywhere, ["toChain", "toCurrency"], &wish.to))
                    div.field {
                        label for="receives" { "You receive" }
                        output.large #receives for="amount" {
                            @if receives.is_empty() { span.faint { "Quote to see it" } } @else { (receives) }
                        }
                    }
                }
            }
            (options(keys, wish))
            div.row { button.primary type="submit" { "Quote" } }
        }
    }
}

/// A chain and a currency. A script takes away the currencies that the chosen chain does not have.
fn selects(chains: &[&Chain], [chain_name, currency_name]: [&str; 2], side: &Side) -> Markup {
    html! {
        div.pair {
            (field(chain_name, "Chain", "", &html! {
                select id=(chain_name) name=(chain_name) required {
                    @for chain in chains {
                        @let value = chain.id.to_string();
                        option value=(value) selected[value == side.chain] { (chain.presentation.display_name) }
                    }
                }
            }))
            (field(currency_name, "Currency", "", &html! {
                select id=(currency_name) name=(currency_name) required {
                    @for (currency, on) in currencies(chains) {
                        option value=(currency.id) selected[currency.id == side.currency] data-chains=(on) {
                            (currency.symbol)
                        }
                    }
                }
            }))
        }
    }
}

/// The currencies of some chains, each once, with the ids of the chains that have it.
fn currencies<'a>(chains: &[&'a Chain]) -> Vec<(&'a Currency, String)> {
    let mut all: Vec<(&Currency, String)> = Vec::new();
    for chain in chains {
        for currency in chain.currencies() {
            match all.iter_mut().find(|(known, _)| known.id == currency.id) {
                Some((_, on)) => on.push_str(&format!(" {}", chain.id)),
                None => all.push((currency, chain.id.to_string())),
            }
        }
    }
    all
}

/// A button of the form, so that it needs no script.
fn switch(wish: &Wish) -> Markup {
    html! {
        button.switch type="submit" name="switch" value="yes" formnovalidate aria-label="Switch direction"
            title="Switch direction" autofocus[wish.switched] {
            svg.icon width="18" height="18" viewBox="0 0 16 16" aria-hidden="true" {
                path d="M2 5.5h11.5L10.5 2.5M14 10.5H2.5l3 3" {}
            }
        }
    }
}

/// The way to pay, the key, and the people where they are others.
fn options(keys: &[ApiKey], wish: &Wish) -> Markup {
    html! {
        div.filters.roomy {
            (field("pay", "Pay", "", &html! {
                select #pay name="pay" {
                    @for (value, name) in WAYS { option value=(value) selected[value == wish.pay] { (name) } }
                }
            }))
            (field("key", "Under the key", "Without one, you cannot watch it here.", &html! {
                select #key name="key" {
                    @for key in keys {
                        @let id = key.id.to_string();
                        option value=(id) selected[id == wish.key] { (key.name) }
                    }
                    option value="" selected[wish.key.is_empty()] { "None" }
                }
            }))
        }
        details open[!wish.recipient.is_empty() || !wish.refund_to.is_empty()] {
            summary { "Another recipient" }
            div.filters.roomy {
                (field("recipient", "Recipient", "Your own wallet if empty.", &html! {
                    input #recipient name="recipient" value=(wish.recipient) autocomplete="off" spellcheck="false";
                }))
                // A deposit from a wallet goes back to it; the style shows this for an address alone.
                div.refund-to {
                    (field("refundTo", "Refund to", "Your own wallet if empty, never an exchange's.", &html! {
                        input #refundTo name="refundTo" value=(wish.refund_to) autocomplete="off" spellcheck="false";
                    }))
                }
            }
        }
    }
}
