/** What a caller waits for whose process counts as dead: nothing of such a caller goes on. */
export const forever = (): Promise<never> => new Promise(() => {})
