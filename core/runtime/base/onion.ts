/** One layer of an onion. It works before and after `next()`, which runs the layers inside it. */
export type Layer<Context, Result> = (ctx: Context, next: () => Promise<Result>) => Promise<Result>

/** Nests the layers around a core, outermost first. One onion serves any number of calls. */
export function onion<Context, Result>(
  layers: readonly Layer<Context, Result>[],
  core: (ctx: Context) => Promise<Result>,
): (ctx: Context) => Promise<Result> {
  return layers.reduceRight<(ctx: Context) => Promise<Result>>(
    // A layer in plain JavaScript may be no async function: what it returns or throws at once counts as well.
    (inner, layer) => async (ctx) => {
      let entered = false
      return layer(ctx, () => {
        if (entered) return Promise.reject(new Error('next() was called twice in one layer'))
        entered = true
        const result = inner(ctx)
        // A layer may not wait for `next()`. Its rejection would then be unhandled and end the process.
        result.catch(() => undefined)
        return result
      })
    },
    core,
  )
}
