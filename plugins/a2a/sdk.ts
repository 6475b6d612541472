/** The package of the protocol. It is loaded with the first request: a server that gets none never has it. */
export async function loadSdk() {
  const [types, server, errors] = await Promise.all([
    import('@a2a-js/sdk'),
    import('@a2a-js/sdk/server'),
    import('@a2a-js/sdk/errors'),
  ])
  return { ...types, ...server, errors }
}

/** The package, loaded. */
export type Sdk = Awaited<ReturnType<typeof loadSdk>>
