/** The usual address of the provider. */
export const usualAddress = 'https://generativelanguage.googleapis.com'

/** The names of the variables, for the sentences of errors. */
export const variables = { key: 'GOOGLE_API_KEY', address: 'GOOGLE_BASE_URL' } as const
