-- The worth of the service's own fee of a request when it was quoted, in millionths of a dollar. Null for requests whose
-- facts were written before.
alter table request add column service_fees_usd bigint;

-- Fees that sponsors paid, by time: the operator's page reads a week of them.
create index ledger_entry_sponsored_at on ledger_entry (at) where credit = 'fees';
