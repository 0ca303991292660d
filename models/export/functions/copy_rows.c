int copy_rows(struct image *to, const struct image *from, int first, int count)
{
	int	row, column;
	size_t	stride = from->width * from->channels;
	unsigned char	*line = malloc(stride);

	if (!line)
		return ENOMEM;

	for (row = 0; row < count; row++) {
		const unsigned char *source = from->pixels + (first + row) * stride;

		for (column = 0; column < from->width; column++) {
			switch (from->channels) {
			case 1:
				line[column] = source[column];
				break;
			case 3:
				line[3 * column + 0] = source[3 * column + 2];
				line[3 * column + 1] = source[3 * column + 1];
				line[3 * column + 2] = source[3 * column + 0];
				break;
			default:
				free(line);
				return EINVAL;
			}
		}
		if (to->bottom_up)
			memcpy(to->pixels + (to->height - 1 - row) * stride, line, stride);
		else
			memcpy(to->pixels + row * stride, line, stride);
	}

	free(line);
	return 0;
}
