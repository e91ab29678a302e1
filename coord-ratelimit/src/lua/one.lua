-- Takes permits of one limit, or gives them back.
-- KEYS   the key of the limit
-- ARGV   as the limit's algorithm says
-- Reply  1 taken or 0 not, now_us, and the level before: x, y, z
local key, at = KEYS[1], 1
local fits, value, healed, expire_us, x, y, z
