/**
 * `node:http` for the edge. An `import` of it reads every one of its exports, and one of them, a client for WebSockets,
 * brings all of undici: a twentieth of a start, and memory, for what nobody asks for.
 */
export const nodeHttp = process.getBuiltinModule('node:http')
