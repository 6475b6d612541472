/** Whether a value is an object with named fields: neither a list nor null. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The named fields of a value from outside; none where the value is no object. */
export const fieldsIn = (value: unknown): Readonly<Record<string, unknown>> =>
  isRecord(value) ? value : {}
