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

/// One end of a transfer: a chain, and a currency by its address there. Two currencies of a chain may have one id.
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
        Self { chain: chain.id.to_string(), currency: chain.native.address.to_string() }
    }

    fn chain<'a>(&self, catalog: &'a Catalog) -> Option<&'a Chain> {
        catalog.chain(ChainId(self.chain.parse().ok()?))
    }

    /// Its currency, or what to choose instead.
    fn currency<'a>(&self, catalog: &'a Catalog, name: &str) -> Result<&'a Currency, Failure> {
        let chain = self.chain(catalog);
        let chain = chain.ok_or_else(|| Failure::bad(format!("{name}: choose a chain of the list")))?;
        let found = chain.currencies().find(|currency| currency.address.text() == self.currency);
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

    /// The recipient, or the user's own wallet. Accounts of the venue are numbers: nobody's wallet is one.
    fn recipient(&self, catalog: &Catalog, user: Address) -> Result<String, Failure> {
        if !self.recipient.is_empty() {
            return Ok(self.recipient.clone());
        }
        match self.to.chain(catalog).filter(|chain| !is_payable(chain)) {
            None => Ok(user.to_string()),
            Some(chain) => {
                let name = &chain.presentation.display_name;
                Err(Failure::bad(format!("recipient: name the index of an account on {name}")))
            }
        }
    }

    /// The body of the quote.
    pub(super) fn ask(&self, catalog: &Catalog, user: Address) -> Result<Value, Failure> {
        let (origin, destination) = (self.from.currency(catalog, "from")?, self.to.currency(catalog, "to")?);
        let amount = units(&self.amount, origin.decimals).filter(|units| units != "0");
        let problem = || Failure::bad(format!("amount: a number with at most {} decimals", origin.decimals));
        let recipient = self.recipient(catalog, user)?;
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
            (options(catalog, keys, wish))
            div.row { button.primary type="submit" { "Quote" } }
        }
    }
}

/// A chain and a currency. A script takes away the currencies that the chosen chain does not have, and asks for a
/// recipient where one has to be named.
fn selects(chains: &[&Chain], [chain_name, currency_name]: [&str; 2], side: &Side) -> Markup {
    let listed = currencies(chains);
    let chosen =
        listed.iter().position(|it| it.is(side) && it.on.iter().any(|chain| chain.id.to_string() == side.chain));
    // One that the chain does not have stays chosen: it is what was sent.
    let chosen = chosen.or_else(|| listed.iter().position(|it| it.is(side)));
    html! {
        div.pair {
            (field(chain_name, "Chain", "", &html! {
                select id=(chain_name) name=(chain_name) required {
                    @for chain in chains {
                        @let value = chain.id.to_string();
                        option value=(value) selected[value == side.chain]
                            data-recipient=[(!is_payable(chain)).then_some("required")] {
                            (chain.presentation.display_name)
                        }
                    }
                }
            }))
            (field(currency_name, "Currency", "", &html! {
                select id=(currency_name) name=(currency_name) required {
                    @for (at, it) in listed.iter().enumerate() {
                        option value=(it.currency.address.text()) selected[Some(at) == chosen] data-chains=(it.chain_ids())
                            data-symbol=(it.currency.symbol) { (it.name(chains.len())) }
                    }
                }
            }))
        }
    }
}

/// A currency, and the chains that have it at the same address.
struct Listed<'a> {
    currency: &'a Currency,
    on: Vec<&'a Chain>,
}

impl Listed<'_> {
    fn is(&self, side: &Side) -> bool {
        self.currency.address.text() == side.currency
    }

    fn chain_ids(&self) -> String {
        self.on.iter().map(|chain| chain.id.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Its symbol, with its chains where others have none of it: without a script all currencies stand in one list.
    fn name(&self, chains: usize) -> String {
        if self.on.len() == chains {
            return self.currency.symbol.clone();
        }
        let on: Vec<&str> = self.on.iter().map(|chain| chain.presentation.display_name.as_str()).collect();
        format!("{} on {}", self.currency.symbol, on.join(", "))
    }
}

/// The currencies of some chains, each address once.
fn currencies<'a>(chains: &[&'a Chain]) -> Vec<Listed<'a>> {
    let mut all: Vec<Listed<'a>> = Vec::new();
    for &chain in chains {
        for currency in chain.currencies() {
            let (address, symbol) = (&currency.address, &currency.symbol);
            match all.iter_mut().find(|it| it.currency.address == *address && it.currency.symbol == *symbol) {
                Some(known) => known.on.push(chain),
                None => all.push(Listed { currency, on: vec![chain] }),
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
fn options(catalog: &Catalog, keys: &[ApiKey], wish: &Wish) -> Markup {
    let numbered = catalog.chains().iter().find(|chain| !is_payable(chain));
    let hint = match numbered.map(|chain| &chain.presentation.display_name) {
        Some(name) => format!("Your own wallet if empty. On {name} the index of an account, which is needed."),
        None => "Your own wallet if empty.".to_owned(),
    };
    let needed = wish.to.chain(catalog).is_some_and(|chain| !is_payable(chain));
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
        // A field that is required must be seen, or the form cannot be sent.
        details open[needed || !wish.recipient.is_empty() || !wish.refund_to.is_empty()] {
            summary { "Another recipient" }
            div.filters.roomy {
                (field("recipient", "Recipient", &hint, &html! {
                    input #recipient name="recipient" value=(wish.recipient) autocomplete="off" spellcheck="false"
                        required[needed];
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

#[cfg(test)]
mod tests {
    use domain::account::Account as Party;
    use domain::catalog::{Class, FillGas, Presentation};

    use super::*;

    const USER: Address = Address::repeat_byte(0x11);
    const BRIDGED: Address = Address::repeat_byte(0x02);

    fn currency(chain: u64, address: Party, id: &str, symbol: &str) -> Currency {
        Currency {
            chain: ChainId(chain),
            address,
            id: id.to_owned(),
            symbol: symbol.to_owned(),
            name: symbol.to_owned(),
            decimals: 6,
            class: Class::Stable,
            native: false,
            logo_uri: String::new(),
            resets_allowance: false,
            authorizations: None,
            held: true,
            target: None,
        }
    }

    fn chain(id: u64, vm: Vm, native: Currency, tokens: Vec<Currency>) -> Chain {
        let gas = FillGas {
            native_limit: 0,
            erc20_limit: 0,
            native_typical: 0,
            erc20_typical: 0,
            contract_typical: 0,
            routed_typical: 0,
        };
        Chain {
            id: ChainId(id),
            name: format!("chain{id}"),
            vm,
            presentation: Presentation {
                display_name: format!("Chain {id}"),
                http_rpc_url: String::new(),
                ws_rpc_url: String::new(),
                explorer_url: String::new(),
                explorer_name: String::new(),
                icon_url: None,
            },
            native,
            tokens,
            depository: Address::ZERO,
            router: Address::ZERO,
            approval_proxy: Address::ZERO,
            multicall3: Address::ZERO,
            spend_limiter: None,
            deposit_address_factory: None,
            dex: None,
            block_time_millis: 1_000,
            confirmations: 1,
            tiers: Vec::new(),
            fill_gas: gas,
            private_id: None,
        }
    }

    /// Two chains, of which the first has two currencies under one id, and the venue.
    fn catalog() -> Catalog {
        let eth = |chain| currency(chain, Address::ZERO.into(), "eth", "ETH");
        let usdc = |chain| currency(chain, Address::repeat_byte(0x01).into(), "usdc", "USDC");
        let bridged = currency(1, BRIDGED.into(), "usdc", "USDC.e");
        let collateral = currency(3, Party::parse(Vm::Venue, "3").unwrap(), "usdc", "USDC");
        Catalog::new(vec![
            chain(1, Vm::Evm, eth(1), vec![usdc(1), bridged]),
            chain(2, Vm::Evm, eth(2), vec![usdc(2)]),
            chain(3, Vm::Venue, collateral, Vec::new()),
        ])
        .unwrap()
    }

    fn wish(to: &str, currency: &str, recipient: &str) -> Wish {
        let from = Side { chain: "1".to_owned(), currency: BRIDGED.to_string().to_lowercase() };
        let to = Side { chain: to.to_owned(), currency: currency.to_owned() };
        Wish { from, to, amount: "5".to_owned(), recipient: recipient.to_owned(), ..Wish::default() }
    }

    #[test]
    fn a_currency_is_found_by_its_address_where_two_have_one_id() {
        let native = format!("{:#x}", Address::ZERO);
        let ask = wish("2", &native, "").ask(&catalog(), USER).unwrap();
        assert_eq!(ask["originCurrency"], json!(format!("{BRIDGED:#x}")));
        assert_eq!(ask["recipient"], json!(USER.to_string()));
        let elsewhere = wish("2", &format!("{BRIDGED:#x}"), "").ask(&catalog(), USER).unwrap_err();
        assert_eq!(elsewhere.to_string(), "to: choose a currency that is on Chain 2");
        let catalog = catalog();
        let chains: Vec<&Chain> = catalog.chains().iter().collect();
        let listed = currencies(&chains);
        let names: Vec<_> = listed.iter().map(|it| (it.name(chains.len()), it.chain_ids())).collect();
        let expected = [
            ("ETH on Chain 1, Chain 2", "1 2"),
            ("USDC on Chain 1, Chain 2", "1 2"),
            ("USDC.e on Chain 1", "1"),
            ("USDC on Chain 3", "3"),
        ];
        assert_eq!(names, expected.map(|(name, ids)| (name.to_owned(), ids.to_owned())));
    }

    #[test]
    fn the_venue_asks_for_the_index_of_an_account() {
        let refused = wish("3", "3", "").ask(&catalog(), USER).unwrap_err();
        assert_eq!(refused.to_string(), "recipient: name the index of an account on Chain 3");
        let ask = wish("3", "3", "722012").ask(&catalog(), USER).unwrap();
        assert_eq!((&ask["recipient"], &ask["destinationChainId"]), (&json!("722012"), &json!(3)));
        let shown = |wish: &Wish| options(&catalog(), &[], wish).into_string();
        let field = |markup: String| {
            let from = markup.find("id=\"recipient\"").unwrap();
            markup[from..].split('>').next().unwrap().contains("required")
        };
        assert!(field(shown(&wish("3", "3", ""))));
        assert!(!field(shown(&wish("2", "0x", ""))));
    }
}
