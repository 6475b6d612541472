/** One layer: it does its work around `next()`, which runs the layers inside. */
export type Layer<Context, Result> = (ctx: Context, next: () => Promise<Result>) => Promise<Result>

/** Nests the layers around a core, outermost first. Composed once, run for every call. */
export function onion<Context, Result>(
  layers: readonly Layer<Context, Result>[],
  core: (ctx: Context) => Promise<Result>,
): (ctx: Context) => Promise<Result> {
  return layers.reduceRight<(ctx: Context) => Promise<Result>>(
    (inner, layer) => (ctx) => {
      let entered = false
      return layer(ctx, () => {
        if (entered) return Promise.reject(new Error('next() was called twice in one layer'))
        entered = true
        const result = inner(ctx)
        // A layer that does not wait for what is inside it must not end the process with it.
        result.catch(() => undefined)
        return result
      })
    },
    core,
  )
}
