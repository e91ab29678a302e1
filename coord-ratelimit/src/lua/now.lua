-- The server's clock, in whole microseconds: below 2^53 until the year 2255, so exact.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
