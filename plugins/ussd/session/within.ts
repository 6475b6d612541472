/** The value of a promise, or undefined if the promise takes longer than `ms`. */
export async function withinOrUndefined<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(resolve, ms, undefined)))
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
