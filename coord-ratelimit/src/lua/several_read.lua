  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = x, y, z
end
return reply
