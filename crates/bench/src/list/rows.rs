//! Requests as a service has them after months: made of quotes that a service really gave, each with ids, people, keys,
//! a time and an outcome of its own. The same number always makes the same request.

use alloy::primitives::{Address, B256};
use anyhow::{Context, Result};
use devnet::Rng;
use domain::api_key::ApiKeyId;
use domain::facts::Facts;
use domain::ids::RequestId;
use domain::time::Timestamp;

/// The people of the quotes that templates are made of. Digits alone, so that no spelling changes them.
pub(crate) const USER: Address = Address::repeat_byte(0x11);
pub(crate) const RECIPIENT: Address = Address::repeat_byte(0x22);

/// Five million requests are two years of them.
const MILLIS_BETWEEN: i64 = 12_000;
/// One request of a hundred is of somebody who never sleeps.
const BUSY_USER: u64 = 0;
/// Users at the beginning; later there is a new one for every twenty requests.
const FIRST_USERS: u64 = 500;
const REQUESTS_PER_USER: u64 = 20;
/// One request of so many was paid at a deposit address.
const REQUESTS_PER_ADDRESS: u64 = 20;
/// Keys beside the caller's own, which has a fifth of all requests.
const OTHER_KEYS: u64 = 40;
const REFUND_REASONS: [&str; 4] =
    ["SOLVER_BALANCE_TOO_LOW", "DEPOSITED_AMOUNT_TOO_LOW_TO_FILL", "SLIPPAGE", "EXECUTION_REVERTED"];

/// A quote with places for what differs from request to request.
pub(crate) struct Template {
    parts: Vec<Part>,
    pub facts: Facts,
    keyed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Id,
    User,
    Recipient,
    CreatedAt,
    Key,
}

enum Part {
    Text(String),
    Place(Place),
}

impl Template {
    /// `body` is the stored text of a quote for [`USER`] and [`RECIPIENT`].
    pub(crate) fn new(body: &str, id: RequestId, created_at: Timestamp, facts: Facts) -> Result<Self> {
        let mut marks = vec![
            (id.to_string(), Place::Id),
            (format!("{USER:#x}"), Place::User),
            (format!("{RECIPIENT:#x}"), Place::Recipient),
            (format!("\"created_at\":{}", created_at.millis()), Place::CreatedAt),
        ];
        marks.extend(facts.key.map(|key| (key.to_string(), Place::Key)));
        for (mark, place) in &marks {
            body.find(mark).with_context(|| format!("a stored quote has no {place:?}"))?;
        }
        let (mut parts, mut rest) = (Vec::new(), body);
        loop {
            let next = marks.iter().filter_map(|(mark, place)| Some((rest.find(mark)?, mark.len(), *place)));
            let Some((at, length, place)) = next.min_by_key(|(at, ..)| *at) else { break };
            parts.push(Part::Text(rest[..at].to_owned()));
            parts.push(Part::Place(place));
            rest = &rest[at + length..];
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self { parts, keyed: facts.key.is_some(), facts })
    }

    fn quote(&self, row: &Row<'_>) -> String {
        let mut quote = String::with_capacity(2 * 1024);
        for part in &self.parts {
            match part {
                Part::Text(text) => quote.push_str(text),
                Part::Place(Place::Id) => quote.push_str(&row.id.to_string()),
                Part::Place(Place::User) => quote.push_str(&row.user),
                Part::Place(Place::Recipient) => quote.push_str(&row.recipient),
                Part::Place(Place::CreatedAt) => quote.push_str(&format!("\"created_at\":{}", row.created_at)),
                Part::Place(Place::Key) => quote.push_str(row.key.as_deref().unwrap_or_default()),
            }
        }
        quote
    }
}

/// One request.
pub(crate) struct Row<'a> {
    pub id: RequestId,
    pub order: B256,
    pub state: &'static str,
    pub reason: Option<&'static str>,
    pub created_at: i64,
    pub updated_at: i64,
    pub user: String,
    pub recipient: String,
    pub key: Option<String>,
    /// The address that it was paid at.
    pub deposit_address: Option<Address>,
    /// From deposit to fill, where it was filled.
    pub fill_millis: Option<i64>,
    pub template: &'a Template,
}

impl Row<'_> {
    pub(crate) fn quote(&self) -> String {
        self.template.quote(self)
    }

    /// The hash of the user's transaction: the id with its random part in front.
    pub(crate) fn deposit_tx(&self) -> B256 {
        turned(self.id.0)
    }

    /// The hash of ours.
    pub(crate) fn payment_tx(&self) -> B256 {
        turned(self.order)
    }
}

/// The bytes behind the first six, and then those. [`super::populate`] does the same in SQL.
fn turned(mut word: B256) -> B256 {
    word.0.rotate_left(6);
    word
}

pub(crate) struct Rows {
    templates: Vec<Template>,
    /// The caller's own key.
    own_key: String,
    /// The first request's time.
    begin: i64,
}

impl Rows {
    /// So many requests, the last of them now: pages show the newest week.
    pub(crate) fn new(templates: Vec<Template>, own_key: ApiKeyId, count: u64, now: Timestamp) -> Self {
        let length = MILLIS_BETWEEN.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
        Self { templates, own_key: own_key.to_string(), begin: now.millis().saturating_sub(length).max(0) }
    }

    pub(crate) fn own_key(&self) -> &str {
        &self.own_key
    }

    /// Another key, of one request in a hundred.
    pub(crate) fn other_key(n: u64) -> String {
        let mut bytes = [0xee; 10];
        bytes[2..].copy_from_slice(&n.to_be_bytes());
        ApiKeyId::new(bytes).to_string()
    }

    pub(crate) fn busy_user() -> String {
        person(BUSY_USER)
    }

    pub(crate) fn row(&self, n: u64) -> Row<'_> {
        // Far apart: neighbouring seeds would roll each other's numbers.
        let mut rng = Rng::new(n.wrapping_mul(0xd134_2543_de82_ef95));
        let template = rng.of(&self.templates);
        let created_at = self.begin.saturating_add(MILLIS_BETWEEN.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX)));
        let now = Timestamp::from_millis(created_at);
        let id = RequestId::new(now, bytes(&mut rng));
        // Order ids are hashes; these begin with the time as request ids do, so that filling takes minutes, not hours.
        let order = RequestId::new(now, bytes(&mut rng)).0;
        let users = FIRST_USERS.max(n / REQUESTS_PER_USER);
        let user = if rng.once_in(100) { BUSY_USER } else { rng.between(1, users) };
        let recipient = if rng.once_in(3) { rng.between(1, users) } else { user };
        let (state, reason) = match rng.roll(1_000) {
            0..930 => ("success", None),
            930..965 => ("refunded", Some(*rng.of(&REFUND_REASONS))),
            965..990 => ("failed", Some("DEPOSIT_REORGED")),
            990..995 => ("submitted", None),
            995..999 => ("pending", None),
            _ => ("refunding", Some("SOLVER_BALANCE_TOO_LOW")),
        };
        // Two templates of three have a key.
        let key = match (template.keyed, rng.once_in(3)) {
            (false, _) => None,
            (true, true) => Some(self.own_key.clone()),
            (true, false) => Some(Self::other_key(rng.roll(OTHER_KEYS))),
        };
        let took = i64::try_from(rng.between(1_500, 30_000)).unwrap_or(i64::MAX);
        let filled = state == "success";
        let same_chain = template.facts.same_chain;
        let at_address = rng.once_in(REQUESTS_PER_ADDRESS) && !same_chain;
        Row {
            id,
            order,
            state,
            reason,
            created_at,
            updated_at: created_at.saturating_add(took),
            user: person(user),
            recipient: person(recipient),
            key,
            // The random part of the order's id.
            deposit_address: at_address.then(|| Address::from_slice(&order.0[12..])),
            fill_millis: filled.then_some(if same_chain { 0 } else { took }),
            template,
        }
    }
}

fn person(n: u64) -> String {
    // As if it were the end of a hash.
    let mut rng = Rng::new(n.wrapping_mul(0x9fb2_1c65_1e98_df25));
    let words: [u64; 2] = std::array::from_fn(|_| rng.roll(u64::MAX));
    format!("0x{:08x}{:016x}{:016x}", u32::try_from(n).unwrap_or(u32::MAX), words[0], words[1])
}

fn bytes(rng: &mut Rng) -> [u8; 26] {
    let mut bytes = [0; 26];
    for some in bytes.chunks_mut(8) {
        let word = rng.roll(u64::MAX).to_be_bytes();
        some.copy_from_slice(&word[..some.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use domain::facts::RequestType;
    use domain::ids::ChainId;
    use domain::money::UsdMicros;

    use super::*;

    fn facts(key: Option<ApiKeyId>) -> Facts {
        Facts {
            user: format!("{USER:#x}"),
            recipient: format!("{RECIPIENT:#x}"),
            origin: ChainId(8453),
            destination: ChainId(10),
            currency_in: format!("{:#x}", Address::ZERO),
            currency_out: format!("{:#x}", Address::ZERO),
            request_type: RequestType::Bridge,
            same_chain: false,
            key,
            referrer: None,
            amount: UsdMicros(5),
            app_fees: UsdMicros(0),
            service_fees: UsdMicros(0),
            features: Vec::new(),
        }
    }

    #[test]
    fn a_number_always_makes_the_same_request_and_its_quote_is_its_own() {
        let key = ApiKeyId::new([7; 10]);
        let (id, at) = (RequestId(B256::repeat_byte(3)), Timestamp::from_millis(1_790_000_000_123));
        let body = format!(
            "{{\"id\":\"{id}\",\"ask\":{{\"user\":\"{USER:#x}\",\"recipient\":\"{RECIPIENT:#x}\",\"key\":\"{key}\"}},\
             \"created_at\":{},\"terms\":{{\"user\":\"{USER:#x}\"}}}}",
            at.millis()
        );
        let rows = || Rows::new(vec![Template::new(&body, id, at, facts(Some(key))).unwrap()], key, 5_000_000, at);
        for n in [0, 1, 4_999_999] {
            let (rows, again) = (rows(), rows());
            let (row, again) = (rows.row(n), again.row(n));
            assert_eq!((row.id, row.order, row.quote()), (again.id, again.order, again.quote()));
            let quote: serde_json::Value = serde_json::from_str(&row.quote()).unwrap();
            assert_eq!(quote["id"], row.id.to_string());
            assert_eq!(quote["ask"]["user"], row.user);
            assert_eq!(quote["terms"]["user"], row.user);
            assert_eq!(quote["ask"]["recipient"], row.recipient);
            assert_eq!(quote["ask"]["key"], row.key.clone().unwrap());
            assert_eq!(quote["created_at"], row.created_at);
            assert_eq!(row.user.len(), 42);
        }
        let rows = rows();
        assert_ne!(rows.row(1).id, rows.row(2).id);
        assert!(rows.row(1).id < rows.row(2).id, "in the order of their time");
        assert!(Template::new("{}", id, at, facts(None)).is_err());
    }

    #[test]
    fn requests_are_of_every_outcome() {
        let body = format!("{} {USER:#x} {RECIPIENT:#x} \"created_at\":0", RequestId(B256::ZERO));
        let template = Template::new(&body, RequestId(B256::ZERO), Timestamp::from_millis(0), facts(None)).unwrap();
        let rows = Rows::new(vec![template], ApiKeyId::new([7; 10]), 10_000, Timestamp::from_secs(1_790_000_000));
        let count = |state: &str| (0..10_000).filter(|n| rows.row(*n).state == state).count();
        assert!((9_000..9_600).contains(&count("success")), "{}", count("success"));
        for state in ["refunded", "failed", "pending", "submitted", "refunding"] {
            assert!(count(state) > 0, "{state}");
        }
        let busy = (0..10_000).filter(|n| rows.row(*n).user == Rows::busy_user()).count();
        assert!((50..200).contains(&busy), "{busy}");
    }
}
