-- Renames tables and columns to the names used in the code.
alter table execution rename to same_chain_tx;
alter table same_chain_tx rename column execution_id to same_chain_tx_id;
alter table second_look rename to rescan;
alter table vault_stranger rename to unrecognized_payout;
alter table vault_cursor rename to depository_cursor;
alter table vault_deposit rename to depository_deposit;
alter table vault_settlement rename to depository_settlement;
alter table vault_total rename to depository_total;
alter table due rename column vault to from_depository;
alter table receipt rename to treasury_transfer;
alter table treasury_transfer rename column receipt_id to treasury_transfer_id;
alter table top_up rename to gas_refill;
