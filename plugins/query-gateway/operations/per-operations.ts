import type { Operations } from './operations.ts'

/** Makes a function that makes a value once for each set of operations, and forgets it with them. */
export function perOperations<T>(
  make: (operations: Operations) => T,
): (operations: Operations) => T {
  const made = new WeakMap<Operations, T>()
  return (operations) => {
    let value = made.get(operations)
    if (value === undefined) made.set(operations, (value = make(operations)))
    return value
  }
}
