-- What is in a block and not final: thousands of rows on a busy day, of which only those of the last blocks are asked for.
create index payment_in_block on payment (chain_id, block_number) where state in ('mined', 'reverted');
