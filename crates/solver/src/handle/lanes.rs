//! Lanes of a chain: the wallets that pay on it, and the inboxes of the tasks that send for them.

use std::sync::Arc;

use alloy::primitives::Address;
use arc_swap::ArcSwapOption;
use evm::LocalSigner;
use store::payments::PaymentRow;
use tokio::sync::mpsc;

/// Payments that fit into a lane's inbox. Any more are found in the database.
const INBOX_CAPACITY: usize = 256;

/// A wallet that pays on a chain. The key is present only if this process signs with it.
#[derive(Clone, Debug)]
pub struct Payer {
    pub address: Address,
    pub key: Option<LocalSigner>,
}

/// A lane's wallet.
#[derive(Debug)]
pub struct Wallet {
    pub address: Address,
    pub key: Option<LocalSigner>,
    /// None while no lane task of this process runs.
    inbox: ArcSwapOption<mpsc::Sender<PaymentRow>>,
}

impl From<&Payer> for Wallet {
    fn from(payer: &Payer) -> Self {
        Self { address: payer.address, key: payer.key.clone(), inbox: Default::default() }
    }
}

/// The wallets that a process pays with on a chain.
#[derive(Clone, Copy, Debug)]
pub struct PayingWallets<'a> {
    pub fillers: &'a [Payer],
    /// Wallets that send what users have signed for.
    pub relayers: &'a [Payer],
    /// The treasury's key, if it refills the others' gas.
    pub treasury_lane: Option<&'a LocalSigner>,
}

#[derive(Debug)]
pub struct Lanes {
    pub wallets: Vec<Wallet>,
    /// Wallets that send what users have signed for. They hold gas and nothing else, and no contract trusts them.
    relayers: Vec<Wallet>,
    /// The treasury lane, if its key is here and the treasury is no filler itself: it refills the fillers and pays
    /// nobody else.
    treasury: Option<Wallet>,
}

impl Lanes {
    pub fn new(paying: PayingWallets<'_>, treasury: Address) -> Self {
        let wallets: Vec<Wallet> = paying.fillers.iter().map(Wallet::from).collect();
        let relayers = paying.relayers.iter().map(Wallet::from).collect();
        let key = paying.treasury_lane.filter(|_| wallets.iter().all(|wallet| wallet.address != treasury));
        let treasury = key.map(|key| Wallet::from(&Payer { address: treasury, key: Some(key.clone()) }));
        Self { wallets, relayers, treasury }
    }

    /// The fillers' wallets, the relayers' and then the treasury's.
    pub fn all(&self) -> impl Iterator<Item = &Wallet> {
        self.wallets.iter().chain(&self.relayers).chain(&self.treasury)
    }

    pub fn relayers(&self) -> Vec<Address> {
        self.relayers.iter().map(|wallet| wallet.address).collect()
    }

    /// The relayers that permits name. Of several, half have no raw calls before them: nobody's deposit waits behind
    /// what a stranger wants called.
    pub fn permit_relayers(&self) -> Vec<Address> {
        let mut relayers = self.relayers();
        relayers.truncate(relayers.len() - relayers.len() / 2);
        relayers
    }

    /// The relayers that send raw calls: the others, or the only one.
    pub fn call_relayers(&self) -> Vec<Address> {
        let relayers = self.relayers();
        let first = relayers.len() - (relayers.len() / 2).max(usize::from(!relayers.is_empty()));
        relayers[first..].to_vec()
    }

    /// True for a relayer that sends both.
    pub fn is_shared(&self, relayer: Address) -> bool {
        self.permit_relayers().contains(&relayer) && self.call_relayers().contains(&relayer)
    }

    pub fn fillers(&self) -> Vec<Address> {
        self.wallets.iter().map(|wallet| wallet.address).collect()
    }

    /// The wallet of a lane, in the order of the inboxes.
    pub fn wallet(&self, lane: usize) -> Option<&Wallet> {
        self.all().nth(lane)
    }

    /// True for a filler or a relayer.
    pub fn sends(&self, who: Address) -> bool {
        self.wallets.iter().any(|wallet| wallet.address == who) || self.is_relayer(who)
    }

    pub fn is_relayer(&self, who: Address) -> bool {
        self.relayers.iter().any(|wallet| wallet.address == who)
    }

    /// True if this process can sign for a wallet.
    pub fn has_key_of(&self, who: Address) -> bool {
        self.all().any(|wallet| wallet.address == who && wallet.key.is_some())
    }

    /// Replaces the lanes' inboxes, one per wallet and the treasury's last: payments in the old ones are found in the
    /// database.
    pub fn open_inboxes(&self) -> Vec<mpsc::Receiver<PaymentRow>> {
        let open = |wallet: &Wallet| {
            let (inbox, receiver) = mpsc::channel(INBOX_CAPACITY);
            wallet.inbox.store(Some(Arc::new(inbox)));
            receiver
        };
        self.all().map(open).collect()
    }

    /// Closes the inboxes: no lane task of this process runs any more.
    pub fn close_inboxes(&self) {
        self.all().for_each(|wallet| wallet.inbox.store(None));
    }

    /// True if this process is the one that sends.
    pub fn send_here(&self) -> bool {
        self.wallets.iter().any(|wallet| wallet.inbox.load().is_some())
    }

    /// Hands a committed payment to its lane. If the inbox is full, it is found in the database at the next block.
    pub fn hand_over(&self, payment: PaymentRow) {
        let wallet = self.all().find(|wallet| wallet.address == payment.payment.wallet);
        if let Some(inbox) = wallet.and_then(|wallet| wallet.inbox.load_full()) {
            let _ = inbox.try_send(payment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_calls_have_relayers_of_their_own_where_there_are_several() {
        for (count, permits, calls) in [
            (0u8, vec![], vec![]),
            (1, vec![1], vec![1]),
            (2, vec![1], vec![2]),
            (3, vec![1, 2], vec![3]),
            (4, vec![1, 2], vec![3, 4]),
        ] {
            let payer = |n: u8| Payer { address: Address::repeat_byte(n), key: None };
            let relayers: Vec<Payer> = (1..=count).map(payer).collect();
            let lanes =
                Lanes::new(PayingWallets { fillers: &[], relayers: &relayers, treasury_lane: None }, Address::ZERO);
            let named = |list: Vec<u8>| list.into_iter().map(Address::repeat_byte).collect::<Vec<_>>();
            assert_eq!((lanes.permit_relayers(), lanes.call_relayers()), (named(permits), named(calls)), "{count}");
            assert_eq!(lanes.is_shared(Address::repeat_byte(1)), count == 1);
        }
    }
}
