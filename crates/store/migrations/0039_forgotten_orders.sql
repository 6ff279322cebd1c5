-- A deposit may name the order of a forgotten address: anybody may sweep a strict one.
create index forgotten_address_of_order on forgotten_address (order_id);
