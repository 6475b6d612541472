/** The package, loaded. Its type has a name of its own, so that the declarations of this package can tell it. */
export type Sdk = typeof import('@a2a-js/sdk') &
  typeof import('@a2a-js/sdk/server') & { readonly errors: typeof import('@a2a-js/sdk/errors') }

/** The package of the protocol. It is loaded with the first request: a server that gets none never has it. */
export async function loadSdk(): Promise<Sdk> {
  const [types, server, errors] = await Promise.all([
    import('@a2a-js/sdk'),
    import('@a2a-js/sdk/server'),
    import('@a2a-js/sdk/errors'),
  ])
  return { ...types, ...server, errors }
}
