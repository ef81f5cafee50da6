-- The events of a usual turn, compressed, stay in their row, which has a page to fill: to put what is over 2 KB elsewhere takes a
-- second row, and another index, with each turn.
ALTER TABLE {schema}.history SET (toast_tuple_target = 8160);
