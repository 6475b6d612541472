/** What setup needs. Apart, so that a server without an upstream never loads protobuf and HTTP/2. */
export { openCatalogue } from './catalogue.ts'
export { createGate } from './gate.ts'
export { createGateway } from './gateway.ts'
export { createHttp2Transport } from './http2-transport.ts'
export { createQueries } from './queries.ts'
