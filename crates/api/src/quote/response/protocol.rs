//! The order of a quote, as the protocol knows it.

use alloy_primitives::{B256, hex};
use domain::money::Amount;
use serde::Serialize;
use solver::Quoted;
use utoipa::ToSchema;

use super::Currencies;
use crate::order_data::OrderData;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Protocol)]
pub(crate) struct Protocol<'a> {
    v2: ProtocolV2<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProtocolV2)]
pub(crate) struct ProtocolV2<'a> {
    #[serde(serialize_with = "crate::json::bytes")]
    #[schema(value_type = String)]
    order_id: B256,
    hub_type: &'static str,
    order_data: OrderData<'a>,
    payment_details: PaymentDetails<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_signature: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PaymentDetails)]
pub(crate) struct PaymentDetails<'a> {
    chain_id: &'a str,
    /// The contract that takes the deposit; on the venue the solver's account index.
    depository: String,
    currency: &'a str,
    #[serde(serialize_with = "crate::json::amount")]
    #[schema(value_type = String)]
    amount: Amount,
}

pub(super) fn protocol<'a>(
    quoted: &'a Quoted,
    currencies: &Currencies<'a>,
    signature: Option<[u8; 65]>,
) -> Option<Protocol<'a>> {
    let (order, order_id) = (quoted.order.as_ref()?, quoted.order_id?);
    Some(Protocol {
        v2: ProtocolV2 {
            order_id: order_id.0,
            hub_type: "onchain",
            order_data: OrderData::from(order),
            payment_details: PaymentDetails {
                chain_id: &currencies.origin_chain.name,
                depository: currencies.origin_chain.account_text(currencies.origin_chain.depository),
                currency: currencies.deposit.currency().address.text(),
                amount: quoted.quote.figures.deposit,
            },
            order_signature: signature.map(|bytes| format!("0x{}", hex::encode(bytes))),
        },
    })
}
