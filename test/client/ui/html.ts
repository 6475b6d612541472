import { parseBlocks } from '../../../client/ui/markdown/blocks.ts'
import { parseInline } from '../../../client/ui/markdown/inline.ts'
import type { Block, Inline, References } from '../../../client/ui/markdown/tree.ts'

const escaped = (text: string) =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')

function line(children: readonly Inline[]): string {
  return children
    .map((child) => {
      if (typeof child === 'string') return escaped(child)
      if (child.type === 'break') return '<br />\n'
      if (child.type === 'code') return `<code>${escaped(child.text)}</code>`
      if (child.type === 'image')
        return `<img src="${address(child.src)}" alt="${escaped(child.alt)}" />`
      if (child.type === 'link')
        return `<a href="${address(child.href)}">${line(child.children)}</a>`
      return `<${child.type}>${line(child.children)}</${child.type}>`
    })
    .join('')
}

function address(href: string): string {
  const written = href.replace(/[^\w\-.!~*'();/?:@&=+$,#%]/gu, (mark) => encodeURIComponent(mark))
  return escaped(written.replace(/%(?![\da-fA-F]{2})/g, '%25'))
}

function block(one: Block, references: References, isTight = false): string {
  const inline = (text: string) => line(parseInline(text, references))
  const all = (blocks: readonly Block[], tight = false) =>
    blocks.map((child) => block(child, references, tight)).join('\n')
  switch (one.type) {
    case 'paragraph':
      return isTight ? inline(one.text) : `<p>${inline(one.text)}</p>`
    case 'heading':
      return `<h${one.level}>${inline(one.text)}</h${one.level}>`
    case 'code': {
      const language = one.language && ` class="language-${escaped(one.language)}"`
      return `<pre><code${language}>${escaped(one.text)}${one.text && '\n'}</code></pre>`
    }
    case 'quote':
      return `<blockquote>\n${all(one.children)}\n</blockquote>`
    case 'rule':
      return '<hr />'
    case 'long':
      return escaped(one.text)
    case 'list': {
      const tag = one.start === undefined ? 'ul' : 'ol'
      const start = one.start === undefined || one.start === 1 ? '' : ` start="${one.start}"`
      const items = one.items.map(({ children }) => `<li>${all(children, one.isTight)}</li>`)
      return `<${tag}${start}>\n${items.join('\n')}\n</${tag}>`
    }
    case 'table': {
      const row = (cells: readonly string[], tag: string) =>
        `<tr>${cells.map((cell) => `<${tag}>${inline(cell)}</${tag}>`).join('')}</tr>`
      return `<table>${row(one.head, 'th')}${one.rows.map((cells) => row(cells, 'td')).join('')}</table>`
    }
  }
}

/** A text as HTML, as the examples of CommonMark write it: for tests alone. */
export function htmlOf(text: string): string {
  const { blocks, references } = parseBlocks(text)
  return blocks.map((one) => block(one, references)).join('\n')
}

/** HTML without what does not count: spaces and line ends between tags, and titles. */
export const normal = (html: string): string =>
  html
    .replace(/ title="[^"]*"/g, '')
    .replace(/\s*(<\/?(?:p|h\d|ul|ol|li|blockquote|pre|hr|table|tr|th|td)\b[^>]*>)\s*/g, '$1')
    .trim()
