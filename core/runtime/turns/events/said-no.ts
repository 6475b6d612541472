/** What a model reads of a call about which a person said no; a reason may follow. */
export const saidNo = (tool: string): string => `The user was asked about "${tool}" and said no`

/** Whether a call ended with a person's no. */
export const isSaidNo = (tool: string, error: string): boolean => error.startsWith(saidNo(tool))
