/** Where a request points: the raw path, still percent-encoded, and the query without its `?`. */
export interface Target {
  readonly path: string
  readonly query: string
  /** The two together, as a handler shall see them. */
  readonly url: string
}

// A backslash is a slash to some and a fragment is never sent, so neither means anything good here.
// Bytes above ASCII Node's parser refuses itself.
const twoFaced = /[#\\]/
const absoluteForm = /^https?:\/\/[^/?#]*/i

/**
 * Reads a request target: `/path?query`, the absolute form that clients of proxies send, or `*`.
 * Undefined means that it is none of these.
 */
export function readTarget(url: string): Target | undefined {
  let target = url
  if (target[0] !== '/') {
    if (target === '*') return { path: '*', query: '', url: '*' }
    const origin = absoluteForm.exec(target)
    if (origin === null) return undefined
    target = target.slice(origin[0].length)
    if (target[0] !== '/') target = `/${target}`
  }
  if (twoFaced.test(target)) return undefined
  const mark = target.indexOf('?')
  return mark < 0
    ? { path: target, query: '', url: target }
    : { path: target.slice(0, mark), query: target.slice(mark + 1), url: target }
}

/** Whether a segment is `.` or `..`, in any spelling, or the path has an empty segment. */
export function isTwisted(path: string): boolean {
  return (
    (path.includes('/.') || path.includes('/%2') || path.includes('//')) &&
    /\/(?:\.|%2e){1,2}(?:\/|$)|\/\//i.test(path)
  )
}
