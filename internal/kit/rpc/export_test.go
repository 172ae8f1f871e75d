package rpc

// PingEvery is how often a connection with open streams is pinged.
const PingEvery = pingEvery
