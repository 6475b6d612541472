/** Whether it is an object with names, and not a list. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** What a value from outside says by name: nothing where it is no object. */
export const fieldsIn = (value: unknown): Readonly<Record<string, unknown>> =>
  isRecord(value) ? value : {}
