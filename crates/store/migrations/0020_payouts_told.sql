-- The allocator says that a payout was executed; the worker then tells the request which it ends. 0 until that is done.
-- Requests of payouts executed before this column were told with them.
alter table payout add column told bigint not null default 1 check (told in (0, 1));
create index payout_untold on payout (chain_id, payout_id) where told = 0;
