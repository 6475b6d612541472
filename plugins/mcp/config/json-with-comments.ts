/** Reads JSON as editors keep it: with comments, and with commas before a closing bracket. Throws what `JSON.parse` throws. */
export function parseWithComments(text: string): unknown {
  let plain = ''
  for (let at = 0; at < text.length;) {
    const char = text.charAt(at)
    const two = text.slice(at, at + 2)
    if (char === '"') {
      const end = endOfText(text, at)
      plain += text.slice(at, end)
      at = end
    } else if (two === '//') {
      const end = text.indexOf('\n', at)
      at = end < 0 ? text.length : end
    } else if (two === '/*') {
      const end = text.indexOf('*/', at + 2)
      at = end < 0 ? text.length : end + 2
    } else {
      plain += char
      at++
    }
  }
  return JSON.parse(withoutLastCommas(plain))
}

/** Where the text ends that begins with the quote at `from`: behind its closing quote. */
function endOfText(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    const char = text.charAt(at)
    if (char === '\\') at++
    else if (char === '"') return at + 1
  }
  return text.length
}

/** Leaves out each comma that stands before a closing bracket, but none within a text. */
function withoutLastCommas(text: string): string {
  let plain = ''
  for (let at = 0; at < text.length;) {
    const char = text.charAt(at)
    if (char === '"') {
      const end = endOfText(text, at)
      plain += text.slice(at, end)
      at = end
      continue
    }
    let next = at + 1
    if (char === ',') while (next < text.length && ' \t\r\n'.includes(text.charAt(next))) next++
    const isLast = char === ',' && '}]'.includes(text.charAt(next)) && next < text.length
    if (!isLast) plain += text.slice(at, next)
    at = next
  }
  return plain
}
