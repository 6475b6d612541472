const longestDid = 500

/** Whether a value has the form of a DID. Plugins name users by it; whether the key behind it is any good is asked elsewhere. */
export const isDid = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= longestDid && /^did:[a-z0-9]+:[!-~]+$/.test(value)
