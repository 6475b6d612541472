/**
 * `node:http` for the edge. An `import` of the module reads every export, and the one for a client of WebSockets brings
 * all of undici: a twentieth of a start, and memory, for a client that the runtime never uses.
 */
export const nodeHttp = process.getBuiltinModule('node:http')
