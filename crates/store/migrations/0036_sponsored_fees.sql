-- Fees that sponsors paid, by time: the operator's page reads a week of them. Apart from the column before it, so that the
-- table of requests is not locked for as long as the index takes.
create index ledger_entry_sponsored_at on ledger_entry (at) where credit = 'fees';
