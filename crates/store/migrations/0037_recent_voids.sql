-- Payments that became void, by time: the cap on those of the last hour reads them whenever one more is to be void.
create index payment_void_at on payment (chain_id, updated_at) where state = 'void';
