import type { DescField, DescFile, DescMessage, DescMethod, DescService } from '@bufbuild/protobuf'

/** The longest description that a comment becomes, because descriptors may come from a stranger. */
const longest = 4000

/** What of a descriptor may have a comment that the document shows. */
export type Commented = DescService | DescMethod | DescMessage | DescField

/** The comments of a file by the paths of what they describe, which are lists of numbers. */
const known = new WeakMap<DescFile, ReadonlyMap<string, string>>()

/** The comment before something in its source, or else behind it; undefined where the descriptors carry none. */
export function commentOf(desc: Commented): string | undefined {
  const file = fileOf(desc)
  let comments = known.get(file)
  if (comments === undefined) known.set(file, (comments = commentsOf(file)))
  if (comments.size === 0) return undefined
  const path = pathOf(desc)
  return path && comments.get(path.join('.'))
}

/** A member `description` for a part of the document, where there is a comment. */
export function described(desc: Commented): { readonly description?: string } {
  const description = commentOf(desc)
  return description === undefined ? {} : { description }
}

function commentsOf({ proto }: DescFile): Map<string, string> {
  const comments = new Map<string, string>()
  for (const { path, leadingComments, trailingComments } of proto.sourceCodeInfo?.location ?? []) {
    const text = (leadingComments || trailingComments)
      .split('\n')
      .map((line) => line.trim())
      .join('\n')
      .trim()
    if (text !== '') comments.set(path.join('.'), cut(text))
  }
  return comments
}

const cut = (text: string) => (text.length > longest ? `${text.slice(0, longest)}…` : text)

const fileOf = (desc: Commented): DescFile =>
  desc.kind === 'rpc' || desc.kind === 'field' ? desc.parent.file : desc.file

/** The numbers of fields in descriptor.proto that lead to the parts of a file. */
const at = { messages: 4, services: 6, methods: 2, fields: 2, nested: 3 }

/** The path of something in its file; undefined where the file does not have it, such as the entry of a map. */
function pathOf(desc: Commented): number[] | undefined {
  switch (desc.kind) {
    case 'service':
      return below([], at.services, desc.file.proto.service.indexOf(desc.proto))
    case 'rpc':
      return below(pathOf(desc.parent), at.methods, desc.parent.proto.method.indexOf(desc.proto))
    case 'field':
      return below(pathOf(desc.parent), at.fields, desc.parent.proto.field.indexOf(desc.proto))
    case 'message':
      return desc.parent === undefined
        ? below([], at.messages, desc.file.proto.messageType.indexOf(desc.proto))
        : below(pathOf(desc.parent), at.nested, desc.parent.proto.nestedType.indexOf(desc.proto))
  }
}

const below = (path: number[] | undefined, field: number, index: number) =>
  path === undefined || index < 0 ? undefined : [...path, field, index]
