/** The modules that `setup` loads, in a file of their own, so that a server without an upstream never loads protobuf and HTTP/2. */
export { Catalogue } from './operations/catalogue.ts'
export { Gate } from './http/gate.ts'
export { Gateway } from './http/gateway.ts'
export { Http2Transport } from './upstream/http2-transport.ts'
export { Upstreams } from './upstream/upstreams.ts'
export { Queries } from './queries.ts'
