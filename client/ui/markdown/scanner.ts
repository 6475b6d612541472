/** A piece of code, and what it is. */
export type Token = readonly [kind: 'comment' | 'string' | 'number' | 'keyword' | '', text: string]

/** The longest code that is coloured. */
export const mostColoured = 32 * 1024

const c =
  'if else for while do switch case default break continue return new try catch finally throw class'
const script =
  `${c} const let var function async await import export from of ` +
  `in typeof instanceof extends null true false undefined this yield`
const keywords: Readonly<Record<string, string>> = {
  js: script,
  ts: `${script} interface type enum implements readonly public private protected as`,
  py:
    'def class if elif else for while return import from as with try except ' +
    'finally raise lambda None True False and or not in is pass yield async await global',
  sh: 'if then else elif fi for while do done case esac function in echo export local return exit set',
  sql:
    'select from where insert into values update set delete create table index join left ' +
    'right inner on group by order limit and or not null primary key as distinct having union',
  go: `${c} func package import var const type struct interface map chan go defer range nil true false`,
  rust:
    'fn let mut pub use mod struct enum impl trait for while loop if else ' +
    'match return self Self async await move const static where true false as in ref',
  java:
    `${c} public private protected static final void int long double ` +
    `boolean interface extends implements import package null true false this super`,
  c: `${c} int char long double float void struct typedef enum const static unsigned sizeof include define`,
  json: 'true false null',
  yaml: 'true false null yes no',
  css: 'important media import supports layer',
  html: '',
  ruby: 'def class module if elsif else unless while do end return begin rescue ensure yield nil true false self require',
}
const others: Readonly<Record<string, string>> = {
  javascript: 'js',
  jsx: 'js',
  typescript: 'ts',
  tsx: 'ts',
  python: 'py',
  bash: 'sh',
  shell: 'sh',
  zsh: 'sh',
  golang: 'go',
  rs: 'rust',
  cpp: 'c',
  'c++': 'c',
  h: 'c',
  kotlin: 'java',
  csharp: 'java',
  yml: 'yaml',
  scss: 'css',
  xml: 'html',
  rb: 'ruby',
}

/** The pieces of code in a language; all of it in one where the language is unknown or the code is long. */
export function tokensOf(code: string, language: string): readonly Token[] {
  const asked = language.toLowerCase()
  const name = Object.hasOwn(others, asked) ? (others[asked] ?? asked) : asked
  if (!Object.hasOwn(keywords, name) || code.length > mostColoured) return [['', code]]
  const words = new Set((keywords[name] ?? '').split(' '))
  const hash = /^(?:py|sh|yaml|ruby)$/.test(name)
  const comment = hash
    ? '#[^\\n]*'
    : name === 'sql'
      ? '--[^\\n]*'
      : '//[^\\n]*|/\\*[^*]*(?:\\*(?!/)[^*]*)*(?:\\*/)?'
  const piece = new RegExp(
    `(${name === 'html' ? '<!--[^-]*(?:-(?!->)[^-]*)*(?:-->)?' : comment})` +
      '|("(?:[^"\\\\\\n]|\\\\.)*"?|\'(?:[^\'\\\\\\n]|\\\\.)*\'?|`(?:[^`\\\\]|\\\\[^])*`?)' +
      '|(\\b\\d[\\w.]*)|([A-Za-z_$][\\w$]*)|[^]',
    'gy',
  )
  const found: Token[] = []
  for (const [text, note, string, number, word] of code.matchAll(piece)) {
    const isKeyword = word !== undefined && words.has(name === 'sql' ? word.toLowerCase() : word)
    const kind =
      note !== undefined
        ? 'comment'
        : string !== undefined
          ? 'string'
          : number !== undefined
            ? 'number'
            : isKeyword
              ? 'keyword'
              : ''
    const last = found.at(-1)
    if (last?.[0] === kind) found[found.length - 1] = [kind, last[1] + text]
    else found.push([kind, text])
  }
  return found
}
