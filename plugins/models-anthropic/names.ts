/** The usual address of the provider. */
export const usualAddress = 'https://api.anthropic.com'

/** The names of the variables, for the sentences of errors. */
export const variables = { key: 'ANTHROPIC_API_KEY', address: 'ANTHROPIC_BASE_URL' } as const
