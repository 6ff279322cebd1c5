//! Cases of finality: what becomes final is in the block that we walked.

use alloy::primitives::{Address, B256, U256};
use domain::alarm::Alarm;
use domain::deposit::State as DepositState;
use domain::payment::State as PaymentState;
use domain::request::State;
use domain::treasury_transfer::State as TransferState;
use evm::SeenTreasuryTransfer;
use store::blocks::Cursor;
use store::payments::{PaymentRow, Subject};
use store::records::{self, Record};
use store::treasury_transfers::{self, TreasuryTransferId};
use store::{Tx, blocks, deposits, payments};

use super::world::*;
use crate::chain::events::{BlockEvent, apply};
use crate::chain::payment_events::mined;
use crate::error::SolverError;
use crate::integrators::funding;

const KEPT: u64 = 512;
const ANOTHER: B256 = B256::repeat_byte(0xab);

/// The walk has passed this block.
async fn walk(world: &World, chain: domain::ids::ChainId, number: u64, hash: B256) {
    let unit =
        world.unit(move |tx, context| Ok(blocks::advance(tx, chain, Cursor { number, hash }, context.now, KEPT)?));
    unit.await.unwrap();
}

async fn event(world: &World, chain: domain::ids::ChainId, number: u64, event: BlockEvent) -> Vec<PaymentRow> {
    let handle = world.handle(chain);
    world.unit(move |tx, context| apply(tx, &handle, head(number), &event, context)).await.unwrap()
}

fn alarmed(world: &World, chain: domain::ids::ChainId) -> bool {
    world.handle(chain).health.alarms.all().iter().any(|(alarm, _)| *alarm == Alarm::FinalBlockDiffers)
}

/// A filled transfer: its fill is decided.
async fn filled(world: &World) -> (domain::quote::Quote, domain::ids::OrderId, PaymentRow) {
    let (quote, order) = world.quote(ETH, ETH, ONE_ETHER).await;
    let fill = world.deposit(deposit(order, ETH, ONE_ETHER)).await.unwrap().remove(0);
    (quote, order, fill)
}

async fn find(world: &World, row: &PaymentRow) -> (PaymentRow, Vec<Record>) {
    let (id, request) = (row.id, row.payment.request.unwrap());
    let read = move |tx: &mut Tx<'_>| {
        Ok::<_, SolverError>((payments::find(tx, id)?.unwrap(), records::of_request(tx, request)?))
    };
    world.store.read(read).await.unwrap()
}

/// A failure that only an orphaned block shows must not become a refund: the payment may still be mined.
#[tokio::test]
async fn a_payment_in_a_block_that_we_did_not_walk_is_neither_final_nor_void() {
    for success in [true, false] {
        for (walked, stands) in [(head(BLOCK + 1).hash, true), (ANOTHER, false)] {
            let world = World::new().await;
            let (quote, order, fill) = filled(&world).await;
            let (handle, sent) = (world.handle(DESTINATION), sent(&fill, success));
            world.unit(move |tx, context| mined(tx, &handle, head(BLOCK + 1), &sent, context)).await.unwrap();
            walk(&world, DESTINATION, BLOCK + 1, walked).await;
            event(&world, DESTINATION, BLOCK + 20, BlockEvent::PaymentFinal(fill.id)).await;
            let (row, shown) = find(&world, &fill).await;
            let fills: Vec<_> = shown.iter().filter(|record| record.chain == DESTINATION).collect();
            let expected = match (stands, success) {
                (true, true) => PaymentState::Final,
                (true, false) => PaymentState::Void,
                (false, _) => PaymentState::Sent,
            };
            assert_eq!((row.state, alarmed(&world, DESTINATION)), (expected, !stands));
            assert_eq!((row.block_number.is_some(), fills[0].gone), (stands, !stands));
            let refunding = world.state(quote.id).await == State::Refunding;
            assert_eq!(refunding, stands && !success, "only a proven failure is refunded");
            assert_eq!(world.live(Subject::Refund(order)).await.is_some(), refunding);
        }
    }
}

#[tokio::test]
async fn a_deposit_in_a_block_that_we_did_not_walk_is_undone() {
    for (walked, state) in [(head(BLOCK).hash, DepositState::Final), (ANOTHER, DepositState::Gone)] {
        let world = World::new().await;
        let (_, order, _) = filled(&world).await;
        walk(&world, ORIGIN, BLOCK, walked).await;
        let id = world.unit(move |tx, _| Ok(deposits::of_order(tx, order)?.unwrap().id)).await.unwrap();
        event(&world, ORIGIN, BLOCK + 20, BlockEvent::DepositFinal(id)).await;
        let stored = world.unit(move |tx, _| Ok(deposits::get(tx, id)?.unwrap().state)).await.unwrap();
        assert_eq!((stored, alarmed(&world, ORIGIN)), (state, state == DepositState::Gone));
    }
}

#[tokio::test]
async fn a_treasury_transfer_in_a_block_that_we_did_not_walk_is_not_credited() {
    for (walked, state) in [(head(BLOCK).hash, TransferState::Credited), (ANOTHER, TransferState::Gone)] {
        let world = World::new().await;
        let seen = SeenTreasuryTransfer {
            tx: B256::repeat_byte(0xf0),
            ordinal: 0,
            log_index: None,
            sender: USER,
            currency: USDC,
            amount: U256::from(ONE_USDC),
            account: Ok(Address::repeat_byte(0x66)),
        };
        let handle = world.handle(ORIGIN);
        world.unit(move |tx, context| funding::apply(tx, &handle, head(BLOCK), &seen, context)).await.unwrap();
        walk(&world, ORIGIN, BLOCK, walked).await;
        let unit = world.unit(|tx, _| Ok(treasury_transfers::ripe(tx, ORIGIN, BLOCK, TreasuryTransferId(0), 2)?));
        let id = unit.await.unwrap()[0];
        event(&world, ORIGIN, BLOCK + 20, BlockEvent::TreasuryTransferFinal(id)).await;
        let stored = world.unit(move |tx, _| Ok(treasury_transfers::get(tx, id)?.unwrap().state)).await.unwrap();
        assert_eq!((stored, alarmed(&world, ORIGIN)), (state, state == TransferState::Gone));
    }
}

/// It was read from most nodes, and a reorg came between that and the unit that applies it.
#[tokio::test]
async fn a_late_receipt_of_an_orphaned_block_is_not_applied() {
    for (walked, state) in [(head(BLOCK + 1).hash, PaymentState::Mined), (ANOTHER, PaymentState::Decided)] {
        let world = World::new().await;
        let (quote, _, fill) = filled(&world).await;
        walk(&world, DESTINATION, BLOCK + 1, walked).await;
        event(&world, DESTINATION, BLOCK + 1, BlockEvent::MissedPayment(sent(&fill, true))).await;
        assert_eq!(find(&world, &fill).await.0.state, state);
        assert_eq!(world.state(quote.id).await == State::Success, state == PaymentState::Mined);
    }
}
