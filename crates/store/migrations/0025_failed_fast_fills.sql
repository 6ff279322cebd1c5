-- The fill that failed on the chain ahead of its deposit: its gas is the hold's to pay, and no refund's.
alter table fast_fill add column failed_payment bigint;
create index fast_fill_failed_payment on fast_fill (failed_payment) where failed_payment is not null;

-- The chain of that fill, while the cause of its failure or the price of its gas is not known. The hold stays until then.
alter table fast_fill add column cause_awaited_on bigint;
create index fast_fill_cause_awaited on fast_fill (cause_awaited_on) where cause_awaited_on is not null;

-- Transfers that are not decided yet have their turn in the order of their ids.
create index treasury_transfer_undecided on treasury_transfer (chain_id, treasury_transfer_id) where state = 'seen';
