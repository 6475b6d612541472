/** Where a request points: the raw path, still percent-encoded, and the query without its `?`. */
export interface Target {
  readonly path: string
  readonly query: string
  /** Path and query together, as a handler sees them. */
  readonly url: string
}

// Some servers read a backslash as a slash, and no client sends a fragment, so a target with either is refused. Node's
// parser itself refuses bytes above ASCII.
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
    if (origin === null || !URL.canParse(origin[0])) return undefined
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
