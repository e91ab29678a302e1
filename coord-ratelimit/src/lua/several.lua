-- Several limits at once, all or nothing.
-- KEYS   the key of each limit
-- ARGV   six for each: gcra, fixed or sliding, then as that algorithm says, filled up to six
-- Reply  1 taken or 0 not, now_us, and the level before of each: x, y, z
local all, values, expiries = true, {}, {}
local reply = {1, now}
for i, key in ipairs(KEYS) do
  local at = 6 * i - 4
  local algorithm = ARGV[at - 1]
  local fits, value, healed, expire_us, x, y, z
