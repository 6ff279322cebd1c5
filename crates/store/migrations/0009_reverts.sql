-- Why a transaction failed, as the chain tells when it is done again, and how often that may still be tried.
alter table transaction_record add column fail_reason text;
alter table transaction_record add column details text;
alter table transaction_record add column explain_left bigint not null default 20;
create index transaction_record_unexplained on transaction_record (chain_id, record_id)
    where succeeded = 0 and gone = 0 and explain_left > 0;
