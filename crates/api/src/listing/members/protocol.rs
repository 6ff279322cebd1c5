//! The order of a request as the protocol knows it. There is no hub between depository and solver: its parts are null.

use domain::catalog::Catalog;
use serde::Serialize;
use serde_json::Value;
use store::listing::{Listed, PaymentMade};
use store::payments::Purpose;
use utoipa::ToSchema;

use crate::listing::figures::Figures;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestProtocol)]
pub(crate) struct RequestProtocol<'a> {
    order_id: String,
    hub_type: &'static str,
    /// Whether the deposit can be taken out by a withdrawal of the protocol: never without us.
    is_withdrawable: bool,
    solver: SolverBody<'a>,
    deposit: DepositSide,
    settlement: Settlement,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProtocolSolver)]
pub(crate) struct SolverBody<'a> {
    address: String,
    protocol_chain_id: &'a str,
    chain_id: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProtocolDeposit)]
pub(crate) struct DepositSide {
    #[schema(required = true)]
    origin: Option<DepositOrigin>,
    #[schema(required = true, value_type = Option<Object>)]
    relay: Option<Value>,
    #[schema(required = true, value_type = Option<Object>)]
    attestation: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProtocolDepositOrigin)]
pub(crate) struct DepositOrigin {
    amount: String,
    currency: String,
    depositor: String,
    depository: String,
    onchain_id: String,
    transaction_id: String,
    chain_id: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProtocolSettlement)]
pub(crate) struct Settlement {
    destination: SettledOn,
    #[schema(required = true, value_type = Option<Object>)]
    relay: Option<Value>,
    #[schema(required = true, value_type = Option<Object>)]
    attestation: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ProtocolPayments)]
pub(crate) struct SettledOn {
    fills: Vec<PaymentTx>,
    refunds: Vec<PaymentTx>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProtocolPayment)]
pub(crate) struct PaymentTx {
    chain_id: u64,
    transaction_id: String,
}

impl<'a> RequestProtocol<'a> {
    /// None for a same-chain request.
    pub(crate) fn new(listed: &'a Listed, figures: &Figures<'a>, catalog: &Catalog) -> Option<Self> {
        let terms = listed.request.quote.terms.as_ref()?;
        let solver_chain = catalog.chains().iter().find(|chain| chain.name == terms.solver_chain);
        let origin = listed.deposit.map(|deposit| DepositOrigin {
            amount: deposit.amount.to_string(),
            currency: figures.origin_chain.account_text(deposit.currency),
            depositor: figures.origin_chain.account_text(deposit.depositor),
            depository: figures.origin_chain.account_text(figures.origin_chain.depository),
            onchain_id: listed.request.order_id.to_string(),
            transaction_id: listed.tx_text(deposit.tx),
            chain_id: deposit.chain.0,
        });
        let sent = |payment: &PaymentMade| {
            Some(PaymentTx { chain_id: payment.chain.0, transaction_id: listed.tx_text(payment.tx?) })
        };
        let of = |counts: fn(Purpose) -> bool| {
            listed.payments.iter().filter(|payment| counts(payment.purpose)).filter_map(sent).collect()
        };
        Some(Self {
            order_id: listed.request.order_id.to_string(),
            hub_type: "onchain",
            is_withdrawable: false,
            solver: SolverBody {
                address: format!("{:#x}", terms.solver),
                protocol_chain_id: &terms.solver_chain,
                chain_id: solver_chain.map_or(0, |chain| chain.id.0),
            },
            deposit: DepositSide { origin, relay: None, attestation: None },
            settlement: Settlement {
                destination: SettledOn {
                    fills: of(|purpose| purpose == Purpose::Fill),
                    refunds: of(Purpose::is_refund),
                },
                relay: None,
                attestation: None,
            },
        })
    }
}
